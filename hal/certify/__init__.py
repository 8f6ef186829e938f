"""`hal-certify`: runs the conformance suite against a port and says what its word is worth."""
