"""What a table is: its columns, its key and the rules its rows keep. Imports nothing else of ours."""
