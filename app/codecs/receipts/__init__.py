"""Receipts: the Merkle tree of RFC 9162, COSE_Sign1 of RFC 9052, and the receipts of RFC 9942."""
