"""How services are observed from outside: their log, and traces of what they do."""
