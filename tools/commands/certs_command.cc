#include "tools/commands/certs_command.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "openssl/err.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"
#include "remote/grpc/connection/openssl_at_exit.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/base/on_interrupt.h"
#include "tools/files/output_files.h"

namespace tutti {
namespace {

constexpr char kCertsHelp[] =
    R"(Makes a certificate authority and, signed by it, a certificate for each task:
  ca.pem, ca.key           the authority; who has the key can pose as any task
  task-0.pem, task-0.key   of task 0; and so on

A task's certificate names it, task-0, and where it may be: localhost,
127.0.0.1, ::1 and all --hosts. The directory must be new or empty, and only
its owner can read it.

Each task needs ca.pem and its own two files, and no other: on several
machines, copy those alone. The keys are not encrypted. For production, use the
authority that you have.

Examples:
  tutti certs --tasks 4 --out certs
  tutti certs --tasks 2 --hosts host1,host2,10.0.0.7 --out host-certs)";

constexpr int kMaxTasks = 65536;

struct FreeOfOpenSsl {
  void operator()(BIO* file) const { BIO_free(file); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* one) const { X509_EXTENSION_free(one); }
};
template <typename T>
using Owned = std::unique_ptr<T, FreeOfOpenSsl>;

struct Identity {
  Owned<EVP_PKEY> key;
  Owned<X509> certificate;
};

// Contents of a certificate. Extensions are as in OpenSSL's configuration.
struct CertificateText {
  std::string name;
  int serial = 1;
  std::vector<std::pair<const char*, std::string>> extensions;
};

absl::Status OpenSslError() {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  return absl::InternalError(absl::StrCat("OpenSSL cannot make a certificate: ",
                                          reason == nullptr ? "" : reason));
}

bool AddExtensions(const CertificateText& text, X509* issuer,
                   X509* certificate) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, /*req=*/nullptr,
                 /*crl=*/nullptr, /*flags=*/0);
  return absl::c_all_of(text.extensions, [&](const auto& one) {
    const Owned<X509_EXTENSION> extension(X509V3_EXT_nconf(
        /*conf=*/nullptr, &context, one.first, one.second.c_str()));
    return extension != nullptr &&
           X509_add_ext(certificate, extension.get(), /*loc=*/-1) == 1;
  });
}

// Makes a key, and a certificate that `signer` signs, or the key itself if
// `signer` is null.
absl::StatusOr<Identity> MakeIdentity(const CertificateText& text, int days,
                                      const Identity* signer) {
  Identity made = {Owned<EVP_PKEY>(EVP_EC_gen("P-256")),
                   Owned<X509>(X509_new())};
  EVP_PKEY* const key = made.key.get();
  X509* const certificate = made.certificate.get();
  if (key == nullptr || certificate == nullptr) return OpenSslError();
  X509* const issuer =
      signer == nullptr ? certificate : signer->certificate.get();
  X509_NAME* const name = X509_get_subject_name(certificate);
  const bool is_made =
      X509_set_version(certificate, X509_VERSION_3) == 1 &&
      ASN1_INTEGER_set(X509_get_serialNumber(certificate), text.serial) == 1 &&
      X509_gmtime_adj(X509_getm_notBefore(certificate), 0) != nullptr &&
      X509_time_adj_ex(X509_getm_notAfter(certificate), days, /*offset_sec=*/0,
                       /*in_tm=*/nullptr) != nullptr &&
      X509_NAME_add_entry_by_txt(
          name, "CN", MBSTRING_ASC,
          reinterpret_cast<const unsigned char*>(text.name.c_str()),
          /*len=*/-1, /*loc=*/-1, /*set=*/0) == 1 &&
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
      X509_set_pubkey(certificate, key) == 1 &&
      AddExtensions(text, issuer, certificate) &&
      X509_sign(certificate, signer == nullptr ? key : signer->key.get(),
                EVP_sha256()) > 0;
  if (!is_made) return OpenSslError();
  return made;
}

absl::Status WritePem(const std::string& name, OutputFiles* files,
                      absl::FunctionRef<int(BIO*)> write) {
  const Owned<BIO> memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr || write(memory.get()) != 1) return OpenSslError();
  char* text = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(memory.get(), &text));
  return files->Write(name, {text, size}, {});
}

// Writes NAME.pem and NAME.key.
absl::Status Write(const std::string& name, const Identity& identity,
                   OutputFiles* files) {
  RETURN_IF_ERROR(WritePem(name + ".pem", files, [&](BIO* file) {
    return PEM_write_bio_X509(file, identity.certificate.get());
  }));
  return WritePem(name + ".key", files, [&](BIO* file) {
    return PEM_write_bio_PrivateKey(file, identity.key.get(), nullptr, nullptr,
                                    0, nullptr, nullptr);
  });
}

absl::Status WriteFiles(const CertsOptions& options,
                        const std::string& alternative_names,
                        OutputFiles* files) {
  KeepOpenSslAtExit();
  ASSIGN_OR_RETURN(
      const auto authority,
      MakeIdentity(
          {.name = "Tutti test authority",
           .extensions = {{"basicConstraints", "critical, CA:TRUE"},
                          {"keyUsage", "critical, keyCertSign, cRLSign"},
                          {"subjectKeyIdentifier", "hash"}}},
          options.days, /*signer=*/nullptr));
  RETURN_IF_ERROR(Write("ca", authority, files));
  for (int task = 0; task < options.tasks; ++task) {
    const std::string name = absl::StrCat("task-", task);
    ASSIGN_OR_RETURN(
        const auto identity,
        MakeIdentity(
            {.name = name,
             .serial = task + 2,
             .extensions = {{"basicConstraints", "critical, CA:FALSE"},
                            {"keyUsage", "critical, digitalSignature"},
                            {"extendedKeyUsage", "serverAuth, clientAuth"},
                            {"authorityKeyIdentifier", "keyid:always"},
                            {"subjectAltName",
                             absl::StrCat("DNS:", name,
                                          ", DNS:localhost, IP:127.0.0.1, "
                                          "IP:::1",
                                          alternative_names)}}},
            options.days, &authority));
    RETURN_IF_ERROR(Write(name, identity, files));
  }
  return absl::OkStatus();
}

bool IsIpAddress(const std::string& host) {
  in6_addr address;  // Large enough for IPv4 too.
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsHostName(absl::string_view host) {
  return !host.empty() && absl::c_all_of(host, [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

// Text such as ", DNS:host1, IP:10.0.0.7".
absl::StatusOr<std::string> AlternativeNames(
    const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    const bool is_address = IsIpAddress(host);
    if (!is_address && !IsHostName(host)) {
      return UsageError(absl::StrCat("--hosts: \"", host,
                                     "\" is neither the name of a host nor an "
                                     "address of IPv4 or IPv6"));
    }
    absl::StrAppend(&names, is_address ? ", IP:" : ", DNS:", host);
  }
  return names;
}

absl::Status NotNewOrEmpty(const std::string& folder) {
  return absl::AlreadyExistsError(
      absl::StrCat(folder, ": wanted a directory that is new or empty"));
}

absl::Status CheckIsNewOrEmpty(const std::filesystem::path& folder) {
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (!std::filesystem::exists(status)) return absl::OkStatus();
  if (std::filesystem::is_directory(status) &&
      std::filesystem::is_empty(folder, error)) {
    return absl::OkStatus();
  }
  return NotNewOrEmpty(folder.string());
}

// Path without trailing slashes.
std::filesystem::path FolderOf(const std::string& out) {
  const std::filesystem::path path =
      std::filesystem::path(out).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

absl::Status MakeCerts(const CertsOptions& options, const Console& console) {
  ASSIGN_OR_RETURN(const auto alternative_names,
                   AlternativeNames(options.hosts));
  const std::filesystem::path folder = FolderOf(options.out);
  RETURN_IF_ERROR(CheckIsNewOrEmpty(folder));
  // Nobody but the owner can read the files, not even while they are made.
  const absl::Cleanup restored = [mask = umask(0077)] { umask(mask); };
  ASSIGN_OR_RETURN(
      const auto files,
      OutputFiles::Create(folder.string(), OutputFiles::Existing::kStay));
  const OnInterrupt on_interrupt([&] { files->Discard(); });
  if (chmod(folder.c_str(), 0700) != 0) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat(folder.string(), ": cannot be made its owner's alone"));
  }
  RETURN_IF_ERROR(WriteFiles(options, alternative_names, files.get()));
  const absl::Status status = files->Commit();
  if (absl::IsAlreadyExists(status)) return NotNewOrEmpty(folder.string());
  RETURN_IF_ERROR(status);
  console.out << "wrote " << folder.string() << "/ca.pem, and task-0.pem to "
              << "task-" << options.tasks - 1 << ".pem with their keys\n";
  return absl::OkStatus();
}

Command AddCertsCommand(CLI::App* app) {
  auto options = std::make_shared<CertsOptions>();
  CLI::App* certs = app->add_subcommand(
      "certs", "Makes certificates to try TLS between tasks with.");
  certs->footer(kCertsHelp);
  certs->add_option("--tasks", options->tasks, "how many")
      ->required()
      ->transform(WholeNumber(1, kMaxTasks))
      ->option_text("N");
  certs->add_option("--out", options->out, "directory for the files")
      ->required()
      ->check(NotEmpty())
      ->option_text("DIR");
  certs
      ->add_option("--hosts", options->hosts,
                   "names and addresses where the tasks may be")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(NotEmpty())
      ->option_text("HOST,...");
  certs
      ->add_option("--days", options->days,
                   "for which they are valid [default: 365]")
      ->transform(WholeNumber(1, 36500))
      ->option_text("N");
  return {.app = certs, .run = [options](const Console& console) {
            return MakeCerts(*options, console);
          }};
}

}  // namespace tutti
