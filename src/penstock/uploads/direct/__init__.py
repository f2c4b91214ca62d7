"""Files that phones send straight to a bucket: announced here, checked here when they are there."""
