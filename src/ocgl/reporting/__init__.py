"""Tables, figures and pages made of results."""
