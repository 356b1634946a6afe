"""The risk-utility map: its table, scores, columns, storage and text."""
