#ifndef TUTTI_TOOLS_FILES_OUTPUT_FILE_H_
#define TUTTI_TOOLS_FILES_OUTPUT_FILE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/base/on_interrupt.h"
#include "tools/files/output_files.h"

namespace tutti {

// One file that is written as OutputFiles does: it appears whole or not at all,
// also if the process is interrupted. A link stays, and what it leads to is
// written. Errors name the file, or what is in its way. For one thread; one
// object at a time, as of OnInterrupt.
class OutputFile {
 public:
  // Looks for all that is in its way, before time goes into what is written,
  // and makes missing directories. If nothing is written, they go again.
  // Errors: also for what a process has open ("/dev/stdout") and for the file
  // that is standard output or error, which would lose what it has.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(
      const std::string& path);

  // Call once.
  absl::Status Write(absl::string_view content);

 private:
  OutputFile(std::string name, std::unique_ptr<OutputFiles> files)
      : name_(std::move(name)),
        files_(std::move(files)),
        on_interrupt_([this] { files_->Discard(); }) {}

  // `path` is no link.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(
      const std::filesystem::path& path);

  const std::string name_;
  const std::unique_ptr<OutputFiles> files_;
  const OnInterrupt on_interrupt_;
};

// Both at once.
absl::Status WriteOutputFile(const std::string& path,
                             absl::string_view content);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_OUTPUT_FILE_H_
