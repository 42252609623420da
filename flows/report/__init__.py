"""The morning after: one page a run, made from what the run published."""
