"""The roles of a process: what receives, what keeps, and who is the keeper. `app.service.gateway` combines them."""
