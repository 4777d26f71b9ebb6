"""What HTTP's specifications say of requests and responses, as functions of header fields and parameters."""
