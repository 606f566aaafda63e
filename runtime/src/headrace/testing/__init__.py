"""Fakes and real parts for tests; nothing in the product imports them."""
