"""What happens to rows: pure functions on frames. No file, socket, clock, model or Prefect here."""
