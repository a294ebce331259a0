"""What an installation consists of: locks with hashes, what installs from one, and the bills of materials made from them."""
