"""The page of a run in the browser. It reads what anybody may read of a run directory, and posts a person's requests into its
inbox. README.md holds the API.

    address → opening → server (waitress) → site (routes, access) → runs (watched) and acting
"""
