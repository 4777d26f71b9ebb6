"""Partial uploads, which clients resume after their connection broke."""

from app.service.uploads.upload_pieces import PieceWriter
from app.service.uploads.upload_records import QuotaExceeded, TooManyUploads, UnknownUpload, Upload, UploadRecord
from app.service.uploads.upload_store import Uploads

__all__ = ["PieceWriter", "QuotaExceeded", "TooManyUploads", "UnknownUpload", "Upload", "UploadRecord", "Uploads"]
