"""An open chip from below: its handle and facts, its pool, and what everything on it has."""
