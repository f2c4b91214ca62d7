"""One hostile merchant's attacks, each against one shared place; `python -m bench.fair_shares.attacks NAME …` runs one.

An attack keeps to the published limits where they refuse it, and takes all that they allow. It runs in a process of its
own, of lower priority, until its time is over or its standard input is closed.
"""
