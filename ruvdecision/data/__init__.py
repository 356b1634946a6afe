"""Files: reading them whole or in pieces, writing them whole or not at all."""
