"""The numbers inside checkpoint files that other programs wrote: which of them are NaN or infinite. No code of a file is run."""
