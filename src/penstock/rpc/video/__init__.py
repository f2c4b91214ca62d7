"""Generated from proto/video: `make proto`."""
