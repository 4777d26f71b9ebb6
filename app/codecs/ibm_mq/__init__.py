"""IBM MQ: its descriptors and headers, and what Encoding, CodedCharSetId and Format say."""
