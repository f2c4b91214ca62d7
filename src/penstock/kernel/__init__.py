"""What every part stands on. No business words in here; each file is one mechanism."""
