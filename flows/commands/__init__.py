"""The commands, a module a topic; each loads what it needs when it is called, so that --help is quick."""
