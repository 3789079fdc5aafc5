#include "tools/files/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

constexpr int64_t kMagicBytes = 6;
constexpr int64_t kVersionBytes = 2;

// A stream with a known number of bytes left.
struct Source {
  std::istream& in;
  int64_t left_bytes;

  // Errors: INVALID_ARGUMENT naming `what` if fewer than `num_bytes` are left;
  // DATA_LOSS if reading them fails.
  absl::Status Read(void* into, int64_t num_bytes, absl::string_view what) {
    if (left_bytes < num_bytes) {
      return InvalidNpy("is truncated: ", what, " takes ", num_bytes,
                        " bytes, but ", left_bytes, " are left");
    }
    in.read(static_cast<char*>(into), num_bytes);
    if (in.gcount() != num_bytes) {
      return absl::DataLossError(absl::StrCat("could not be read: ", what));
    }
    left_bytes -= num_bytes;
    return absl::OkStatus();
  }
};

absl::Status ReadMagic(Source& source) {
  char magic[kMagicBytes];
  RETURN_IF_ERROR(source.Read(magic, kMagicBytes, "the magic"));
  if (std::memcmp(magic, "\x93NUMPY", kMagicBytes) == 0)
    return absl::OkStatus();
  return InvalidNpy("is no .npy file: it does not start with \"\\x93NUMPY\"");
}

// Reads the version, and returns the size in bytes of the header's length
// field.
absl::StatusOr<int64_t> ReadVersion(Source& source) {
  uint8_t version[kVersionBytes];
  RETURN_IF_ERROR(source.Read(version, kVersionBytes, "the version"));
  const int major = version[0];
  const int minor = version[1];
  if (major < 1 || major > 3 || minor != 0) {
    return InvalidNpy("is of .npy version ", major, ".", minor,
                      "; wanted 1.0, 2.0 or 3.0");
  }
  return major == 1 ? 2 : 4;
}

absl::StatusOr<std::string> ReadHeaderText(Source& source) {
  ASSIGN_OR_RETURN(const int64_t length_bytes, ReadVersion(source));
  uint8_t bytes[4] = {};
  RETURN_IF_ERROR(source.Read(bytes, length_bytes, "the header's length"));
  const uint32_t length = bytes[0] | bytes[1] << 8 | bytes[2] << 16 |
                          static_cast<uint32_t>(bytes[3]) << 24;
  if (length > kMaxNpyHeaderBytes) {
    return InvalidNpy("has a header of ", length, " bytes; wanted at most ",
                      kMaxNpyHeaderBytes);
  }
  if (source.left_bytes < length) {
    return InvalidNpy("is truncated: its header takes ", length, " bytes, but ",
                      source.left_bytes, " are left");
  }
  std::string text(length, '\0');
  RETURN_IF_ERROR(source.Read(text.data(), length, "its header"));
  return text;
}

absl::Status CheckSize(const NpyHeader& header, int64_t left_bytes) {
  ASSIGN_OR_RETURN(const int64_t wanted,
                   SizeInBytes(header.dtype, header.shape));
  if (left_bytes == wanted) return absl::OkStatus();
  return InvalidNpy(left_bytes < wanted ? "is truncated" : "is too long",
                    ": the elements of ", ToString(header), " take ", wanted,
                    " bytes, but ", left_bytes, " follow the header");
}

absl::StatusOr<NpyHeader> ReadHeader(Source& source) {
  RETURN_IF_ERROR(ReadMagic(source));
  ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(source));
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(text);
  if (!header.ok()) return header;
  RETURN_IF_ERROR(CheckSize(*header, source.left_bytes));
  return header;
}

constexpr char kElements[] = "the array's elements";

// Reads elements that lie in Fortran order, and puts each into its place.
absl::Status ReadFortranOrder(Source& source, const NpyHeader& header,
                              Tensor& tensor) {
  const TensorShape shape = ArrayShape(header);
  const size_t size =
      header.descr.empty()
          ? SizeOf(tensor.dtype())
          : static_cast<size_t>(header.shape.dim(shape.num_dims()));
  // Bytes of a piece: whole elements.
  const size_t piece_bytes =
      std::max((size_t{64} << 10) / size, size_t{1}) * size;
  const auto dims = shape.dims();
  std::vector<size_t> strides(dims.size());
  size_t stride = size;
  for (size_t k = dims.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= static_cast<size_t>(dims[k]);
  }
  std::vector<int64_t> index(dims.size());
  size_t place = 0;
  std::vector<std::byte> piece(std::min(piece_bytes, tensor.size_bytes()));
  for (size_t left = tensor.size_bytes(); left > 0;) {
    const size_t num_bytes = std::min(left, piece.size());
    RETURN_IF_ERROR(
        source.Read(piece.data(), static_cast<int64_t>(num_bytes), kElements));
    for (size_t at = 0; at < num_bytes; at += size) {
      std::memcpy(tensor.mutable_data() + place, &piece[at], size);
      for (size_t k = 0; k < dims.size(); ++k) {
        place += strides[k];
        if (++index[k] < dims[k]) break;
        place -= strides[k] * static_cast<size_t>(std::exchange(index[k], 0));
      }
    }
    left -= num_bytes;
  }
  return absl::OkStatus();
}

absl::Status ReadElements(Source& source, const NpyHeader& header,
                          Tensor& tensor) {
  if (header.fortran_order && header.shape.num_dims() > 1) {
    RETURN_IF_ERROR(ReadFortranOrder(source, header, tensor));
  } else {
    RETURN_IF_ERROR(
        source.Read(tensor.mutable_data(), source.left_bytes, kElements));
  }
  const size_t word = header.big_endian_bytes;
  if (word == 0) return absl::OkStatus();
  for (size_t at = 0; at < tensor.size_bytes(); at += word) {
    std::byte* const bytes = tensor.mutable_data() + at;
    std::reverse(bytes, bytes + word);
  }
  return absl::OkStatus();
}

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

struct File {
  std::ifstream in;
  int64_t size_bytes = 0;
};

absl::StatusOr<File> Open(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status kind =
      std::filesystem::status(path, error);
  if (kind.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError("no such file");
  }
  if (error) return absl::ErrnoToStatus(error.value(), "cannot be read");
  if (kind.type() == std::filesystem::file_type::directory) {
    return InvalidNpy("is a directory; wanted a .npy file");
  }
  if (kind.type() != std::filesystem::file_type::regular) {
    return InvalidNpy("is no regular file");
  }
  File file;
  file.in.open(path, std::ios::binary | std::ios::ate);
  if (!file.in) return absl::ErrnoToStatus(errno, "cannot be opened");
  file.size_bytes = file.in.tellg();
  file.in.seekg(0);
  return file;
}

// Opens the file and returns the result of `read`.
template <typename Result>
absl::StatusOr<Result> ReadFrom(const std::string& path,
                                absl::StatusOr<Result> (*read)(std::istream&,
                                                               int64_t)) {
  absl::StatusOr<File> file = Open(path);
  if (!file.ok()) return WithPath(path, file.status());
  absl::StatusOr<Result> result = read(file->in, file->size_bytes);
  if (!result.ok()) return WithPath(path, result.status());
  return result;
}

}  // namespace

absl::StatusOr<NpyHeader> ReadNpyHeader(std::istream& in, int64_t size_bytes) {
  Source source{in, size_bytes};
  return ReadHeader(source);
}

absl::StatusOr<Tensor> ReadNpy(std::istream& in, int64_t size_bytes) {
  Source source{in, size_bytes};
  ASSIGN_OR_RETURN(const NpyHeader header, ReadHeader(source));
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(header.dtype, header.shape);
  if (!tensor.ok()) return tensor;
  RETURN_IF_ERROR(ReadElements(source, header, *tensor));
  return tensor;
}

absl::StatusOr<NpyHeader> ReadNpyHeader(const std::string& path) {
  return ReadFrom<NpyHeader>(path, &ReadNpyHeader);
}

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  return ReadFrom<Tensor>(path, &ReadNpy);
}

}  // namespace tutti
