"""What a PDF says. Nothing here knows a database; everything here runs in the sandbox."""
