"""Work in steps, of which a later attempt does the rest only."""
