"""Policy files: reading them with positions, checking them, explaining them. The language itself is `policy`."""
