"""What every experiment is made of: experiment, claim, scale, search, statistics, store and figures."""
