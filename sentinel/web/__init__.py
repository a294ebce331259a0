"""The page of a run in the browser: a small site on the standard library. It reads what anybody may read of a run directory, and
posts a person's wishes into its inbox. README.md holds the API.

    address → opening → server (connections, http_request, workers) → site (routes, access) → runs (watched) and acting
"""
