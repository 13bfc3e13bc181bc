"""Data sets: data modules by name, sources, reading, splits, batches and transforms."""

from typing import TYPE_CHECKING

from unionsnn.base.lazy import on_first_use

if TYPE_CHECKING:
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.data.datamodules import GraphDataModule
    from unionsnn.data.encodings.definitions import Encodings
    from unionsnn.data.named import (
        AmazonDataModule,
        CSLDataModule,
        CyclesDataModule,
        FolderDataModule,
        LRGBDataModule,
        OGBDataModule,
        OGBNodeDataModule,
        PlanetoidDataModule,
        PyGDataModule,
        PyGNodeDataModule,
        QM9DataModule,
        TUDataModule,
        ZINCDataModule,
    )
    from unionsnn.data.nodes import NodeDataModule
    from unionsnn.data.splits import Split, random_holdout, stratified_holdout, stratified_k_fold
    from unionsnn.data.transforms import (
        DistanceEncoding,
        LaplacianEncoding,
        RandomWalkEncoding,
        RootedSubgraphs,
        StructuralCoefficients,
    )

__getattr__ = on_first_use(
    __name__,
    {
        "unionsnn.coefficients": "CoefficientSpec",
        "unionsnn.data.datamodules": "GraphDataModule",
        "unionsnn.data.encodings.definitions": "Encodings",
        "unionsnn.data.named": (
            "AmazonDataModule CSLDataModule CyclesDataModule FolderDataModule LRGBDataModule "
            "OGBDataModule OGBNodeDataModule PlanetoidDataModule PyGDataModule "
            "PyGNodeDataModule QM9DataModule TUDataModule ZINCDataModule"
        ),
        "unionsnn.data.nodes": "NodeDataModule",
        "unionsnn.data.splits": "Split random_holdout stratified_holdout stratified_k_fold",
        "unionsnn.data.transforms": (
            "DistanceEncoding LaplacianEncoding RandomWalkEncoding RootedSubgraphs "
            "StructuralCoefficients"
        ),
    },
)

__all__ = [
    "AmazonDataModule",
    "CSLDataModule",
    "CoefficientSpec",
    "CyclesDataModule",
    "DistanceEncoding",
    "Encodings",
    "FolderDataModule",
    "GraphDataModule",
    "LRGBDataModule",
    "LaplacianEncoding",
    "NodeDataModule",
    "OGBDataModule",
    "OGBNodeDataModule",
    "PlanetoidDataModule",
    "PyGDataModule",
    "PyGNodeDataModule",
    "QM9DataModule",
    "RandomWalkEncoding",
    "RootedSubgraphs",
    "Split",
    "StructuralCoefficients",
    "TUDataModule",
    "ZINCDataModule",
    "random_holdout",
    "stratified_holdout",
    "stratified_k_fold",
]


def __dir__() -> list[str]:
    return sorted(__all__)
