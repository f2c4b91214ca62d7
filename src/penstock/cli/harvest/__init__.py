"""`penstock harvest …`: records of other systems. Each command lives in a file of its own."""
