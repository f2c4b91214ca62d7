"""Generated from proto/video/v1: `make proto`."""
