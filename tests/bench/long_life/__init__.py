"""A run of sixty days, made up: 200 attempts of 10^6 steps, 500 incidents. `life` decides, `folder` writes, the rest measures."""
