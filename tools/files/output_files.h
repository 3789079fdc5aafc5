#ifndef TUTTI_TOOLS_FILES_OUTPUT_FILES_H_
#define TUTTI_TOOLS_FILES_OUTPUT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "tools/base/on_interrupt.h"

namespace tutti {

// Path to rename a file to, so that `path` names it: links stay, and their
// target is replaced, whether it exists or not. Errors, INVALID_ARGUMENT and
// naming `path`: a directory, or another file that is not regular; a link that
// leads nowhere; a file that a process has open ("/dev/stdout"); the file that
// is standard output or error, whose content would be lost.
absl::StatusOr<std::filesystem::path> ReplaceablePath(const std::string& path);

// Files that appear in a directory together or not at all.
//
// Write() gives each file a temporary name beside its final name. Commit() then
// renames all files, replacing existing ones; if one cannot be renamed, it
// renames none. A link with a final name stays, and its target is replaced; two
// links must not lead to one file. The destructor removes files that were not
// committed, and directories that Create() made if they are empty. All errors
// name the file by its final name.
//
// All this holds whatever fails in this process. If the process is killed,
// or the machine stops, temporary files may stay. Killed in the middle of
// Commit(), it may leave some files new and others old; each of them is whole,
// since all bytes are on disk before the first rename.
//
// Discard() may be called on any thread; all other methods are for one thread.
class OutputFiles {
 public:
  // Fate of a file that has the name of a new one.
  enum class Existing : uint8_t { kReplaced, kStay };

  // Makes the directory and its parents if they are missing. With kStay, a file
  // that exists is an error, ALREADY_EXISTS, of Replace().
  static absl::StatusOr<std::unique_ptr<OutputFiles>> Create(
      const std::string& directory, Existing existing = Existing::kReplaced);
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Writes `head`, then `body`, to disk, and closes the file. Errors: also
  // those of ReplaceablePath(), and CANCELLED after Discard().
  absl::Status Write(const std::string& name, absl::string_view head,
                     absl::Span<const std::byte> body) ABSL_LOCKS_EXCLUDED(mu_);

  // Gives all files their final names. Until Keep(), Discard() can still put
  // back the files that were replaced. Call once. Errors: those of a rename
  // after all files were written, for example because somebody removed a
  // directory; then Replace() restores everything. CANCELLED after Discard().
  absl::Status Replace() ABSL_LOCKS_EXCLUDED(mu_);

  // Makes the replacement final. Errors: CANCELLED after Discard().
  absl::Status Keep() ABSL_LOCKS_EXCLUDED(mu_);

  // Replace() and Keep().
  absl::Status Commit() ABSL_LOCKS_EXCLUDED(mu_);

  // Discards, as the destructor does, now and for good. Does nothing after
  // Keep(). Each call tries again to remove directories that were not empty,
  // for example because another process had files there.
  void Discard() ABSL_LOCKS_EXCLUDED(mu_);

  // Final paths of the files written until now, in order.
  std::vector<std::string> paths() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Staged {
    std::string temporary;
    std::string path;   // As the caller spells it.
    std::string whole;  // `path` with links resolved.
    std::string kept;   // Name of the replaced file; empty if none.
    bool in_place = false;
  };

  OutputFiles(std::string directory, Existing existing)
      : directory_(std::move(directory)), existing_(existing) {}

  enum class State : uint8_t { kOpen, kReplaced, kCommitted, kDiscarded };

  absl::Status ReplaceOne(Staged* file) const;
  static void Restore(Staged* file);
  void RestoreAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Makes a file under a temporary name beside `whole`, for Discard() to
  // remove. Returns a descriptor open for writing. Errors name `path`.
  absl::StatusOr<int> MakeTemporary(const std::string& path,
                                    const std::string& whole)
      ABSL_LOCKS_EXCLUDED(mu_);

  const std::string directory_;
  const Existing existing_;
  std::vector<std::string> made_directories_;  // Outermost first.

  mutable Mutex mu_;
  std::vector<Staged> staged_ ABSL_GUARDED_BY(mu_);
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
};

// Writes one file as OutputFiles does: the file appears whole or not at all,
// even if the process is interrupted. A link stays, and its target is written.
// Errors name the file, or the obstacle. For one thread; only one object at a
// time, as OnInterrupt requires.
class OutputFile {
 public:
  // Looks for obstacles before the caller spends time on the content, and makes
  // missing directories. If nothing is written, the destructor removes these
  // directories. Errors: also for a file that a process has open
  // ("/dev/stdout"), and for the file that is standard output or error, whose
  // content would be lost.
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

// Creates the OutputFile and writes it.
absl::Status WriteOutputFile(const std::string& path,
                             absl::string_view content);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_OUTPUT_FILES_H_
