#include "tools/output_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tools/on_interrupt.h"
#include "tools/output_files.h"

namespace tutti {

absl::Status WriteOutputFile(const std::string& path,
                             absl::string_view content) {
  const std::filesystem::path whole(path);
  if (!whole.has_filename()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": names a directory, not a file to write"));
  }
  std::error_code ignored;
  const auto type = std::filesystem::status(whole, ignored).type();
  const bool can_be_replaced = type == std::filesystem::file_type::not_found ||
                               type == std::filesystem::file_type::regular ||
                               type == std::filesystem::file_type::directory;
  if (!can_be_replaced) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no regular file"));
  }
  const auto files = OutputFiles::Create(
      whole.has_parent_path() ? whole.parent_path().string() : ".");
  if (!files.ok()) return files.status();
  const OnInterrupt on_interrupt([&] { (*files)->Discard(); });
  const absl::Status written =
      (*files)->Write(whole.filename().string(), content, {});
  if (!written.ok()) return written;
  return (*files)->Commit();
}

}  // namespace tutti
