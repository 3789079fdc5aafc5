#include "tools/output_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(
    const std::string& path) {
  using Type = std::filesystem::file_type;
  const std::filesystem::path whole(path);
  std::error_code ignored;
  const Type type = std::filesystem::status(whole, ignored).type();
  if (!whole.has_filename() || type == Type::directory) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": names a directory, not a file to write"));
  }
  // Of a status that cannot be had, the directory's error says more.
  if (type != Type::not_found && type != Type::regular && type != Type::none) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no regular file"));
  }
  auto files = OutputFiles::Create(
      whole.has_parent_path() ? whole.parent_path().string() : ".");
  if (!files.ok()) return files.status();
  return std::unique_ptr<OutputFile>(
      new OutputFile(whole.filename().string(), *std::move(files)));
}

absl::Status OutputFile::Write(absl::string_view content) {
  const absl::Status written = files_->Write(name_, content, {});
  return written.ok() ? files_->Commit() : written;
}

absl::Status WriteOutputFile(const std::string& path,
                             absl::string_view content) {
  const auto file = OutputFile::Create(path);
  return file.ok() ? (*file)->Write(content) : file.status();
}

}  // namespace tutti
