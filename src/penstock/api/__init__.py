"""The HTTP edge: parse, call, translate. No rule of the business lives here."""
