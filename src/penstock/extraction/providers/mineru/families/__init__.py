"""The four contracts of MinerU, one file each."""
