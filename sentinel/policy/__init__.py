"""The policy language (what to do about which finding), its checks, and what is judged by it. Pure, but for pydantic."""
