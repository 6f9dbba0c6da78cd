"""Annotations by which controllers of the host give what all virtual clusters share.

Guards of Works (guards.py) and policies about tenants (access/policies/) read these tables, and
so does docs/tenants.md.
"""

_EXTERNAL_DNS = "external-dns.alpha.kubernetes.io/"
DNS_NAMES = (
    f"{_EXTERNAL_DNS}hostname",
    f"{_EXTERNAL_DNS}internal-hostname",
    "coredns.io/hostname",
    *("dns.alpha.kubernetes.io/external", "dns.alpha.kubernetes.io/internal"),
    *("tailscale.com/hostname", "kube-vip.io/loadbalancerHostname"),
)
"""Give the object a name outside of the cluster."""
HOST_KEYS = ("/server-alias", "/redirect-from", "cert-manager.io/common-name")
"""Ends of annotations that give an Ingress further hosts."""


def _under(domain: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{domain}/{name}" for name in names)


_CLOUD = "service.beta.kubernetes.io"
LOAD_BALANCER_KEYS = (
    *_under("io.cilium", "lb-ipam-ips", "lb-ipam-sharing-key", "lb-ipam-sharing-cross-namespace"),
    *_under("lbipam.cilium.io", "ips", "sharing-key", "sharing-cross-namespace"),
    *_under("kube-vip.io", "loadbalancerIPs"),
    *_under("metallb.io", "loadBalancerIPs", "allow-shared-ip", "address-pool"),
    *_under("metallb.universe.tf", "loadBalancerIPs", "allow-shared-ip", "address-pool"),
    *_under("projectcalico.org", "loadBalancerIPs", "ipv4pools", "ipv6pools"),
    *_under("purelb.io", "addresses", "allow-shared-ip", "service-group"),
    *_under("eip.openelb.kubesphere.io", "v1alpha1", "v1alpha2"),
    *_under(
        _CLOUD,
        *(
            f"aws-load-balancer-{name}"
            for name in (
                *("name", "eip-allocations", "private-ipv4-addresses", "ipv6-addresses"),
                *("subnets", "security-groups", "ssl-cert"),
            )
        ),
    ),
    *_under("alb.ingress.kubernetes.io", "group.name", "load-balancer-name", "certificate-arn"),
    *_under("alb.ingress.kubernetes.io", "security-groups", "subnets"),
    *_under(_CLOUD, "azure-load-balancer-ipv4", "azure-load-balancer-ipv6"),
    *_under(_CLOUD, "azure-load-balancer-resource-group", "azure-dns-label-name"),
    *_under(_CLOUD, "azure-pip-name", "azure-pip-name-ipv6", "azure-pip-prefix-id"),
    *_under("networking.gke.io", "load-balancer-ip-addresses"),
    *_under("kubernetes.io", "ingress.global-static-ip-name", "ingress.regional-static-ip-name"),
    *_under("ingress.gcp.kubernetes.io", "pre-shared-cert"),
    *_under("loadbalancer.openstack.org", "load-balancer-id", "load-balancer-address"),
    *_under("loadbalancer.openstack.org", "floating-network-id", "port-id"),
    *_under("kubernetes.digitalocean.com", "load-balancer-id"),
    *_under("load-balancer.hetzner.cloud", "id", "name"),
)
"""Choose an address, a load balancer, its network or its certificate, or share those of others."""

POD_ADDRESSES = (
    *_under("cni.projectcalico.org", "ipAddrs", "ipAddrsNoIpam", "floatingIPs", "hwAddr"),
    *_under("cni.projectcalico.org", "ipv4pools", "ipv6pools"),
    *_under("ipam.cilium.io", "ip-pool"),
    *_under("k8s.v1.cni.cncf.io", "networks"),
    *_under("v1.multus-cni.io", "default-network"),
    *_under("ovn.kubernetes.io", "ip_address", "ip_pool", "logical_switch", "mac_address"),
)
"""Choose the address or the network of a pod, also those of others."""

PROXY_CALLS = (
    *("/auth-url", "/mirror-target", "/mirror-host", "/external-auth-url"),
    *("/global-rate-limit-memcached-host", "/router.middlewares", "/router.tls.options"),
    "/service.serverstransport",
)
"""Ends of keys: addresses that a shared proxy calls, or its objects, of any namespace."""

OWN_SOURCES = frozenset(
    (
        "name",
        *("configMap", "downwardAPI", "emptyDir", "ephemeral", "gitRepo", "hostPath", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
)
"""Keys of volumes of pods: the name, and what is of the pod's node or namespace or a registry."""
NETWORK_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc"),
    *("flexVolume", "flocker", "gcePersistentDisk", "glusterfs", "iscsi", "nfs"),
    *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
    "vsphereVolume",
)
"""All others that the API server knows: a policy cannot ask for what it does not name."""
