//! A world for `naia`, which leaves entities and components to the game: a list of entities, each with its few
//! components. `naia` asks for all methods of its traits; those for entities that clients own are never called here.

use naia_shared::{
    ComponentFieldUpdate, ComponentKind, ComponentKinds, ComponentUpdate,
    EntityAndGlobalEntityConverter, GlobalWorldManagerType, LocalEntityAndGlobalEntityConverter,
    ReplicaDynMutWrapper, ReplicaDynRefWrapper, ReplicaMutTrait, ReplicaMutWrapper,
    ReplicaRefTrait, ReplicaRefWrapper, Replicate, ReplicatedComponent, SerdeErr, WorldMutType,
    WorldRefType,
};

/// A place in the list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Id(u32);

type Components = Vec<(ComponentKind, Box<dyn Replicate>)>;

#[derive(Default)]
pub struct World {
    entities: Vec<Option<Components>>,
    free: Vec<Id>,
}

impl World {
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        let ids = self.entities.iter().enumerate();
        ids.filter(|(_, components)| components.is_some()).map(|(at, _)| Id(at as u32))
    }

    pub fn get<R: ReplicatedComponent>(&self, id: Id) -> Option<&R> {
        self.boxed(&id, &ComponentKind::of::<R>())?.to_any().downcast_ref()
    }

    pub fn get_mut<R: ReplicatedComponent>(&mut self, id: Id) -> Option<&mut R> {
        self.boxed_mut(&id, &ComponentKind::of::<R>())?.to_any_mut().downcast_mut()
    }

    fn components(&self, id: &Id) -> Option<&Components> {
        self.entities.get(id.0 as usize)?.as_ref()
    }

    fn components_mut(&mut self, id: &Id) -> Option<&mut Components> {
        self.entities.get_mut(id.0 as usize)?.as_mut()
    }

    fn boxed(&self, id: &Id, kind: &ComponentKind) -> Option<&dyn Replicate> {
        let found = self.components(id)?.iter().find(|(of, _)| of == kind);
        found.map(|(_, component)| &**component)
    }

    fn boxed_mut(&mut self, id: &Id, kind: &ComponentKind) -> Option<&mut dyn Replicate> {
        let found = self.components_mut(id)?.iter_mut().find(|(of, _)| of == kind);
        found.map(|(_, component)| &mut **component)
    }
}

/// Ends the program: an entity that a client owns, or shares with the server, was asked for.
fn only_the_servers() -> ! {
    panic!("all entities of this workload are the server's own")
}

struct Borrowed<'a, R>(&'a R);

impl<R: Replicate> ReplicaRefTrait<R> for Borrowed<'_, R> {
    fn to_ref(&self) -> &R {
        self.0
    }
}

struct BorrowedMut<'a, R>(&'a mut R);

impl<R: Replicate> ReplicaRefTrait<R> for BorrowedMut<'_, R> {
    fn to_ref(&self) -> &R {
        self.0
    }
}

impl<R: Replicate> ReplicaMutTrait<R> for BorrowedMut<'_, R> {
    fn to_mut(&mut self) -> &mut R {
        self.0
    }
}

macro_rules! read {
    ($world:ty) => {
        impl WorldRefType<Id> for $world {
            fn has_entity(&self, id: &Id) -> bool {
                self.components(id).is_some()
            }

            fn entities(&self) -> Vec<Id> {
                self.ids().collect()
            }

            fn has_component<R: ReplicatedComponent>(&self, id: &Id) -> bool {
                self.boxed(id, &ComponentKind::of::<R>()).is_some()
            }

            fn has_component_of_kind(&self, id: &Id, kind: &ComponentKind) -> bool {
                self.boxed(id, kind).is_some()
            }

            fn component<'a, R: ReplicatedComponent>(
                &'a self,
                id: &Id,
            ) -> Option<ReplicaRefWrapper<'a, R>> {
                self.get::<R>(*id).map(|component| ReplicaRefWrapper::new(Borrowed(component)))
            }

            fn component_of_kind<'a>(
                &'a self,
                id: &Id,
                kind: &ComponentKind,
            ) -> Option<ReplicaDynRefWrapper<'a>> {
                let component = self.boxed(id, kind)?;
                Some(ReplicaDynRefWrapper::new(component.dyn_ref()))
            }
        }
    };
}

read!(&World);
read!(&mut World);

impl WorldMutType<Id> for &mut World {
    fn spawn_entity(&mut self) -> Id {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entities.push(None);
            Id(self.entities.len() as u32 - 1)
        });
        self.entities[id.0 as usize] = Some(Vec::new());
        id
    }

    fn despawn_entity(&mut self, id: &Id) {
        if self.entities[id.0 as usize].take().is_some() {
            self.free.push(*id);
        }
    }

    fn component_kinds(&mut self, id: &Id) -> Vec<ComponentKind> {
        let components = self.components(id).into_iter().flatten();
        components.map(|(kind, _)| *kind).collect()
    }

    fn component_mut<'a, R: ReplicatedComponent>(
        &'a mut self,
        id: &Id,
    ) -> Option<ReplicaMutWrapper<'a, R>> {
        self.get_mut::<R>(*id).map(|component| ReplicaMutWrapper::new(BorrowedMut(component)))
    }

    fn component_mut_of_kind<'a>(
        &'a mut self,
        id: &Id,
        kind: &ComponentKind,
    ) -> Option<ReplicaDynMutWrapper<'a>> {
        let component = self.boxed_mut(id, kind)?;
        Some(ReplicaDynMutWrapper::new(component.dyn_mut()))
    }

    fn component_apply_update(
        &mut self,
        converter: &dyn LocalEntityAndGlobalEntityConverter,
        id: &Id,
        kind: &ComponentKind,
        update: ComponentUpdate,
    ) -> Result<(), SerdeErr> {
        match self.boxed_mut(id, kind) {
            Some(component) => component.read_apply_update(converter, update),
            None => Ok(()),
        }
    }

    fn component_apply_field_update(
        &mut self,
        converter: &dyn LocalEntityAndGlobalEntityConverter,
        id: &Id,
        kind: &ComponentKind,
        update: ComponentFieldUpdate,
    ) -> Result<(), SerdeErr> {
        match self.boxed_mut(id, kind) {
            Some(component) => component.read_apply_field_update(converter, update),
            None => Ok(()),
        }
    }

    fn insert_component<R: ReplicatedComponent>(&mut self, id: &Id, component: R) {
        self.insert_boxed_component(id, Box::new(component));
    }

    fn insert_boxed_component(&mut self, id: &Id, component: Box<dyn Replicate>) {
        let kind = component.kind();
        if let Some(components) = self.components_mut(id) {
            components.retain(|(of, _)| *of != kind);
            components.push((kind, component));
        }
    }

    fn remove_component<R: ReplicatedComponent>(&mut self, id: &Id) -> Option<R> {
        let component = self.remove_component_of_kind(id, &ComponentKind::of::<R>())?;
        component.to_boxed_any().downcast().ok().map(|component| *component)
    }

    fn remove_component_of_kind(
        &mut self,
        id: &Id,
        kind: &ComponentKind,
    ) -> Option<Box<dyn Replicate>> {
        let components = self.components_mut(id)?;
        let at = components.iter().position(|(of, _)| of == kind)?;
        Some(components.swap_remove(at).1)
    }

    fn local_duplicate_entity(&mut self, _: &Id) -> Id {
        only_the_servers()
    }

    fn local_duplicate_components(&mut self, _: &Id, _: &Id) {
        only_the_servers()
    }

    fn mirror_entities(&mut self, _: &Id, _: &Id) {
        only_the_servers()
    }

    fn mirror_components(&mut self, _: &Id, _: &Id, _: &ComponentKind) {
        only_the_servers()
    }

    fn entity_publish(
        &mut self,
        _: &ComponentKinds,
        _: &dyn EntityAndGlobalEntityConverter<Id>,
        _: &dyn GlobalWorldManagerType,
        _: &Id,
    ) {
        only_the_servers()
    }

    fn component_publish(
        &mut self,
        _: &ComponentKinds,
        _: &dyn EntityAndGlobalEntityConverter<Id>,
        _: &dyn GlobalWorldManagerType,
        _: &Id,
        _: &ComponentKind,
    ) {
        only_the_servers()
    }

    fn entity_unpublish(&mut self, _: &Id) {
        only_the_servers()
    }

    fn component_unpublish(&mut self, _: &Id, _: &ComponentKind) {
        only_the_servers()
    }

    fn entity_enable_delegation(
        &mut self,
        _: &ComponentKinds,
        _: &dyn EntityAndGlobalEntityConverter<Id>,
        _: &dyn GlobalWorldManagerType,
        _: &Id,
    ) {
        only_the_servers()
    }

    fn component_enable_delegation(
        &mut self,
        _: &ComponentKinds,
        _: &dyn EntityAndGlobalEntityConverter<Id>,
        _: &dyn GlobalWorldManagerType,
        _: &Id,
        _: &ComponentKind,
    ) {
        only_the_servers()
    }

    fn entity_disable_delegation(&mut self, _: &Id) {
        only_the_servers()
    }

    fn component_disable_delegation(&mut self, _: &Id, _: &ComponentKind) {
        only_the_servers()
    }
}
