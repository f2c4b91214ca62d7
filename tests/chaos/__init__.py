"""The chaos kit: real processes, killed for real, on a real PostgreSQL and Redis; seeded, bounded, verified."""
