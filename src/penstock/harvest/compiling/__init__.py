"""From what a source's levels say to one immutable snapshot: merged, checked, hashed, and explained key by key."""
