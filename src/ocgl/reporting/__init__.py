"""Tables, figures and HTML pages of stored results."""
