#include "tools/files/output_file.h"

#include "framework/base/status_macros.h"
#include "tools/files/replaceable_path.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(
    const std::string& path) {
  ASSIGN_OR_RETURN(const auto whole, ReplaceablePath(path));
  {
    ASSIGN_OR_RETURN(const auto trial, Open(whole));
    RETURN_IF_ERROR(trial->files_->Write(trial->name_, {}, {}));
  }
  return Open(whole);
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(
    const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(
      auto files,
      OutputFiles::Create(path.has_parent_path() ? path.parent_path().string()
                                                 : "."));
  return std::unique_ptr<OutputFile>(
      new OutputFile(path.filename().string(), std::move(files)));
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
