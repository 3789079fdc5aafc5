#include "remote/grpc/connection/tls_credentials.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/grpcpp.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/evp.h"
#include "openssl/opensslv.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "remote/grpc/connection/openssl_at_exit.h"

// With an older OpenSSL, gRPC takes TLS 1.2 for a demand of 1.3.
static_assert(OPENSSL_VERSION_NUMBER >= 0x10101000L,
              "TLS 1.3 needs OpenSSL 1.1.1 or newer");

// Declares a function that gRPC's library exports but its public headers lack:
// it demands a version of TLS. Null where the library does not export it.
class grpc_ssl_server_credentials {
 public:
  __attribute__((weak)) void set_min_tls_version(grpc_tls_version version);
};

namespace tutti {
namespace {

struct PemFiles {
  std::string certificate;
  std::string key;
  std::string ca;
};

absl::StatusOr<std::string> Read(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a directory; wanted a file in PEM format"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  if (!file.good()) {
    return absl::ErrnoToStatus(errno == 0 ? EIO : errno,
                               absl::StrCat("cannot read ", path));
  }
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is empty; wanted a file in PEM format"));
  }
  return text;
}

absl::StatusOr<PemFiles> Read(const TlsOptions& tls) {
  if (tls.certificate.empty() || tls.key.empty() || tls.ca.empty()) {
    return absl::InvalidArgumentError(
        "TLS needs three files: certificate, key and CA");
  }
  ASSIGN_OR_RETURN(auto certificate, Read(tls.certificate));
  ASSIGN_OR_RETURN(auto key, Read(tls.key));
  ASSIGN_OR_RETURN(auto ca, Read(tls.ca));
  return PemFiles{.certificate = std::move(certificate),
                  .key = std::move(key),
                  .ca = std::move(ca)};
}

struct FreeOpenSsl {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using OpenSslPtr = std::unique_ptr<T, FreeOpenSsl>;

OpenSslPtr<BIO> Open(const std::string& text) {
  return OpenSslPtr<BIO>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

OpenSslPtr<X509> ParseCertificate(const std::string& text) {
  return OpenSslPtr<X509>(
      PEM_read_bio_X509(Open(text).get(), nullptr, nullptr, nullptr));
}

// Returns null for a key with a passphrase: no one can enter it.
OpenSslPtr<EVP_PKEY> ParseKey(const std::string& text) {
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  return OpenSslPtr<EVP_PKEY>(PEM_read_bio_PrivateKey(Open(text).get(), nullptr,
                                                      no_passphrase, nullptr));
}

// Finds out why gRPC cannot use the files: gRPC does not say.
absl::Status WhyUnfit(const TlsOptions& tls, const PemFiles& files) {
  const auto certificate = ParseCertificate(files.certificate);
  const auto key = ParseKey(files.key);
  std::string why =
      absl::StrCat("the certificate ", tls.certificate, ", its key ", tls.key,
                   " and the CA ", tls.ca, " do not fit each other");
  if (certificate == nullptr) {
    why = absl::StrCat(tls.certificate, " holds no certificate in PEM format");
  } else if (key == nullptr) {
    why = absl::StrCat(tls.key,
                       " holds no key in PEM format, or one with a "
                       "passphrase");
  } else if (ParseCertificate(files.ca) == nullptr) {
    why =
        absl::StrCat("the CA ", tls.ca, " holds no certificate in PEM format");
  } else if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    why = absl::StrCat("the key ", tls.key, " is not that of the certificate ",
                       tls.certificate);
  }
  ERR_clear_error();
  return absl::InvalidArgumentError(why);
}

// Server credentials with a TLS version, which gRPC's own class cannot set.
class TlsServerCredentials final : public grpc::ServerCredentials {
 public:
  TlsServerCredentials(const PemFiles& files,
                       MinTlsVersionSetter set_min_version)
      : credentials_(nullptr) {
    grpc_ssl_pem_key_cert_pair pair = {.private_key = files.key.c_str(),
                                       .cert_chain = files.certificate.c_str()};
    credentials_ = grpc_ssl_server_credentials_create_ex(
        files.ca.c_str(), &pair, 1,
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, nullptr);
    if (credentials_ == nullptr) return;
    set_min_version(credentials_, grpc_tls_version::TLS1_3);
  }
  ~TlsServerCredentials() override {
    if (credentials_ != nullptr) grpc_server_credentials_release(credentials_);
  }
  TlsServerCredentials(const TlsServerCredentials&) = delete;
  TlsServerCredentials& operator=(const TlsServerCredentials&) = delete;

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*none*/) override {}

  // Returns whether a server can use them. gRPC reports this only for a server
  // with a port: tries one that accepts nothing.
  bool Work() {
    grpc_completion_queue* const queue =
        grpc_completion_queue_create_for_pluck(nullptr);
    grpc_server* const server = grpc_server_create(nullptr, nullptr);
    grpc_server_register_completion_queue(server, queue, nullptr);
    const bool works = AddPortToServer("127.0.0.1:0", server) > 0;
    grpc_server_shutdown_and_notify(server, queue, nullptr);
    grpc_completion_queue_pluck(queue, nullptr,
                                gpr_inf_future(GPR_CLOCK_MONOTONIC), nullptr);
    grpc_server_destroy(server);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_destroy(queue);
    return works;
  }

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    if (credentials_ == nullptr) return 0;
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_;
};

}  // namespace

MinTlsVersionSetter FindMinTlsVersionSetter() {
  if (&grpc_ssl_server_credentials::set_min_tls_version == nullptr) {
    return nullptr;
  }
  return [](grpc_server_credentials* credentials, grpc_tls_version version) {
    reinterpret_cast<grpc_ssl_server_credentials*>(credentials)
        ->set_min_tls_version(version);
  };
}

absl::StatusOr<TransportCredentials> MakeCredentials(
    const TlsOptions& tls, MinTlsVersionSetter set_min_version) {
  if (!tls.enabled()) {
    return TransportCredentials{.client = grpc::InsecureChannelCredentials(),
                                .server = grpc::InsecureServerCredentials()};
  }
  ASSIGN_OR_RETURN(const auto files, Read(tls));
  if (set_min_version == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("TLS 1.3 cannot be demanded of gRPC ", grpc::Version(),
                     ": its library does not export "
                     "grpc_ssl_server_credentials::set_min_tls_version"));
  }
  KeepOpenSslAtExit();
  auto server = std::make_shared<TlsServerCredentials>(files, set_min_version);
  if (!server->Work()) return WhyUnfit(tls, files);
  return TransportCredentials{
      .client = grpc::SslCredentials({.pem_root_certs = files.ca,
                                      .pem_private_key = files.key,
                                      .pem_cert_chain = files.certificate}),
      .server = std::move(server)};
}

}  // namespace tutti
