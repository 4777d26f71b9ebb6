"""Partial uploads, which clients resume after their connection broke."""

from app.service.uploads.upload_store import PieceWriter, Upload, Uploads

__all__ = ["PieceWriter", "Upload", "Uploads"]
