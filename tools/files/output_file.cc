#include "tools/files/output_file.h"

#include "tools/files/replaceable_path.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(
    const std::string& path) {
  const auto whole = ReplaceablePath(path);
  if (!whole.ok()) return whole.status();
  {
    const auto trial = Open(*whole);
    if (!trial.ok()) return trial.status();
    const absl::Status written =
        (*trial)->files_->Write((*trial)->name_, {}, {});
    if (!written.ok()) return written;
  }
  return Open(*whole);
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(
    const std::filesystem::path& path) {
  auto files = OutputFiles::Create(
      path.has_parent_path() ? path.parent_path().string() : ".");
  if (!files.ok()) return files.status();
  return std::unique_ptr<OutputFile>(
      new OutputFile(path.filename().string(), *std::move(files)));
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
