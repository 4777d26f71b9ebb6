"""IBM MQ: its descriptors and headers, and the meaning of Encoding, CodedCharSetId and Format."""
