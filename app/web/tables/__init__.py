"""Tables that the pipeline builds."""
