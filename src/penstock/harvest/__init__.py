"""Records of other systems, once each, in order, for ever: registry, plans, execution, cursors, records."""
