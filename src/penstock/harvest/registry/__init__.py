"""What we know of each source: YAML files for people, `reg_*` tables as the truth, `apply` between them."""
